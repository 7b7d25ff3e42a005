# Waits until llama-server has answered all its requests. Its positional parameters are its port, the seconds in which
# requests may still come, and the seconds that they may take from then on.
# SIGTERM would cut its open streams off (llama.cpp 0.7.0, tools/server/server.cpp).
port=$1 quiet=$2 end=$(($2 + $3))
while ((SECONDS < end)); do
  page=$(
    { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || { echo "nothing listens"; exit; }
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    timeout 5 cat <&3
  )
  case $page in
    'nothing listens' | HTTP/1.?' 503 '*) exit 0 ;; # it has ended, or still loads
    *requests_processing\ 0*requests_deferred\ 0*) if ((SECONDS >= quiet)); then exit 0; fi ;;
  esac
  sleep 1
done
