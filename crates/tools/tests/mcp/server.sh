# A tool server in the shell, with nothing but what the shell has built in. $1: a folder for its traces.
set -f
dir=$1
echo started >>"$dir/starts"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { say "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
if [ -e "$dir/broken" ]; then
    echo "no such module s3cret-value in mode read-write" >&2
    exit 7
fi
while :; do
    IFS= read -r line || exit 0
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        read -r version <"$dir/version"
        say "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{\"listChanged\":true}},\"serverInfo\":{\"name\":\"sh\",\"version\":\"$version\"}}"
        ;;
    *'"method":"tools/list"'*)
        read -r tools <"$dir/tools"
        say "{\"tools\":$tools}"
        ;;
    *'"method":"tools/call"'*)
        case $line in
        *'"name":"die"'*) exit 3 ;;
        *'"name":"hang"'*) echo "$id" >>"$dir/hung" ;;
        *'"name":"large"'*)
            while :; do printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; done
            ;;
        *'"name":"wrong"'*) echo '{"jsonrpc":"2.0","id":' ;;
        *'"name":"last"'*) text "goodbye" && exit 0 ;;
        *'"name":"ask"'*)
            echo '{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}'
            echo '{"jsonrpc":"2.0","id":"q2","method":"ping"}'
            IFS= read -r one
            IFS= read -r other
            printf '%s\n' "$one" "$other" >"$dir/answers"
            text "asked"
            ;;
        *'"name":"changed"'*)
            read -r tools <"$dir/other"
            echo "$tools" >"$dir/tools"
            echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            text "changed"
            ;;
        *) text "pong" ;;
        esac
        ;;
    *'"method":"notifications/cancelled"'*) printf '%s\n' "$line" >>"$dir/cancelled" ;;
    esac
done
