# Lets clients close their connections, waits for endpoint removal, then while requests are held. Without bash's /dev/tcp the image would need a client.
removal=$1 drain=$2 port=${!3} held=$4 stats=$5 address=$6

request() {  # METHOD PATH [BODY]: prints the status line
    exec 3<>"/dev/tcp/$address/$port" || return
    printf '%s %s HTTP/1.0\r\nContent-Length: %d\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n%s' \
        "$1" "$2" "${#3}" "$3" >&3
    head -n 1 <&3
    exec 3>&-
}

request POST "$stats" "s=marker&action=maint&b=stopping" > /dev/null
sleep "$removal"
while [[ $(request GET "$held") == *" 409 "* ]]; do
    # The hold server is the last one: without it, held requests get 503 at their next retry, within a second.
    ((SECONDS < removal + drain)) || request POST "$stats" "s=hold&action=maint&b=engines"
    ((SECONDS < removal + drain + 5)) || break
    sleep 0.5
done
