#!/usr/bin/env python3
"""Prints which crates a binary of Cairn is made of, as CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/).

.ci/sbom.py TARGET... > cairn.cdx.json

The crates are those that Cargo links into the daemon for these targets, and the procedural macros that write parts of them; what
only build scripts and tests need is left out. Checksums are those of Cargo.lock. The same source gives the same bytes.
"""
import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DAEMON = "cairn-daemon"


def metadata(target):
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def linked(meta):
    """The ids of all packages that the daemon links, with what each of them links."""
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    first = next(package["id"] for package in meta["packages"] if package["name"] == DAEMON)
    found, waiting = {}, [first]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        kinds = lambda dep: {kind["kind"] for kind in dep["dep_kinds"]}
        found[one] = {dep["pkg"] for dep in nodes[one]["deps"] if None in kinds(dep)}
        waiting.extend(found[one])
    return first, found


def main(targets):
    if not targets:
        sys.exit("error: name the targets, such as x86_64-unknown-linux-musl")
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    sums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    packages, links = {}, {}
    for target in targets:
        meta = metadata(target)
        packages.update({package["id"]: package for package in meta["packages"]})
        first, found = linked(meta)
        for one, others in found.items():
            links.setdefault(one, set()).update(others)
    ref = lambda one: f"pkg:cargo/{packages[one]['name']}@{packages[one]['version']}"

    def component(one):
        package = packages[one]
        out = {"type": "library", "bom-ref": ref(one), "name": package["name"], "version": package["version"],
               "purl": ref(one)}
        if package.get("license"):
            # Some crates still write the slash of old for OR.
            out["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := sums.get((package["name"], package["version"])):
            out["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return out

    application = component(first) | {"type": "application", "name": "cairn"}
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.5",
        "version": 1, "metadata": {"component": application},
        "components": [component(one) for one in sorted(links, key=ref) if one != first],
        "dependencies": [{"ref": ref(one), "dependsOn": sorted(map(ref, links[one]))} for one in sorted(links, key=ref)],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


main(sys.argv[1:])
