//! Pages of HTML as text.

use std::time::{Duration, Instant};

use rstest::rstest;

use url::Url;

use super::super::html::text;

fn read(html: &str) -> String {
    text(html, &Url::parse("https://docs.rs/tokio/latest/").unwrap())
}

#[rstest]
#[case("<p>One  two\n three</p><p>four</p>", "One two three\n\nfour")]
#[case("a<br>b<br/>c", "a\nb\nc")]
#[case("<h1>Top</h1><h3>Sub</h3>text", "# Top\n\n### Sub\n\ntext")]
#[case("<ul><li>a<li>b</li></ul>c", "- a\n- b\n\nc")]
#[case("<b>bo</b>ld and <i>it</i>", "bold and it")]
#[case("a<b> b</b> c", "a b c")]
#[case("<div>a</div><div>b</div>", "a\nb")]
#[case("<pre>fn main() {\n    ok();\n}</pre>after", "fn main() {\n    ok();\n}\n\nafter")]
#[case("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>x", "a | b\n1 | 2\n\nx")]
#[case("<a href='struct.A.html'>A</a>", "A (https://docs.rs/tokio/latest/struct.A.html)")]
#[case("<a href=/x>A</a> b", "A (https://docs.rs/x) b")]
#[case("<a href=\"#top\">up</a> <a href=\"javascript:x()\">go</a> <a>none</a>", "up go none")]
#[case("<img src=x alt='A ferry'> <img alt=''>", "[image: A ferry]")]
#[case("<script>if (a < b) { '</p>' }</script>x", "x")]
#[case("<SCRIPT src=x>\n</Script >x", "x")]
#[case("<style>p > a { }</style>x<noscript><p>no</noscript>y", "xy")]
#[case("<svg><g><text>no</text></g></svg>x", "x")]
#[case("<template><template>a</template>b</template>x", "x")]
#[case("<object data=x />x", "x")]
#[case("<!-- <p>no</p> -->x<!doctype html>y<?xml ?>z", "xyz")]
#[case("a &amp; b &lt;c&gt; &#8211; &#x2014; &nbsp;d &unknown; &", "a & b <c> – — d &unknown; &")]
#[case("caf&eacute; &Uuml;bung &nbsp;&frac12; &yuml;&shy; &copy;", "café Übung ½ ÿ ©")]
#[case("1 < 2 <3 a<", "1 < 2 <3 a<")]
#[case("<p title='a > b'>x</p>", "x")]
#[case("<p title=it's>x</p>y", "x\n\ny")]
#[case("x<p unclosed='", "x")]
#[case("<head><title>Tokio &amp; more</title><meta></head><body><p>x", "Tokio & more\n\nx")]
#[case("<title>Top</title><body><h1>Top</h1>x", "# Top\n\nx")]
#[case("<head><link><body>x", "x")]
#[case("<svg><title>no</title></svg>x", "no\n\nx")]
#[case("", "")]
#[case("日本<p>語</p>ü", "日本\n\n語\n\nü")]
fn pages_are_read_as_text(#[case] html: &str, #[case] expected: &str) {
    assert_eq!(read(html), expected);
}

#[rstest]
#[case("<")]
#[case("<a ")]
#[case("<a href=\"")]
#[case("<a href='x' b>")]
#[case("<script>")]
#[case("</script")]
#[case("<!--")]
#[case("<svg>")]
#[case("<li>")]
#[case("<h1>")]
#[case("<pre>\n")]
#[case("<td></td>")]
#[case("&")]
#[case("&amp")]
#[case("\n | ")]
#[case("<p a=b =c ==d / ' \">")]
#[case("<br>x<br>")]
fn a_broken_page_takes_no_longer_than_another(#[case] piece: &str) {
    let html = piece.repeat(200_000 / piece.len());
    let begun = Instant::now();
    let _ = read(&html);
    let _ = read(&format!("<pre>{html}"));
    let _ = read(&format!("<script>{html}"));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn no_page_breaks_it() {
    // Every pair of pieces, in both orders.
    let pieces = [
        "<",
        ">",
        "/",
        "!",
        "--",
        "a",
        "=",
        "'",
        "\"",
        " ",
        "&",
        ";",
        "#",
        "x",
        "é",
        "<p",
        "</p>",
        "<script>",
        "<title>",
        "<svg>",
        "<pre>",
        "\n",
        "<li>",
        "href=",
        "<a ",
        "<br>",
        "&#",
        "&#x110000;",
        "<h1>",
        "|",
    ];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                let _ = read(&format!("{a}{b}{c}"));
            }
        }
    }
}
