#!/bin/sh
# Runs at every boot, as the machine's own user (metadata key startup-script): starts the reaper beside whatever the machine
# is for. What the reaper must know stands in the metadata key tpuops-reaper; nothing here is built from data.
umask 077
folder=/var/lib/tpuops
mkdir -p "$folder" || exit 1
base64 -d >"$folder/reaper.pyz.partial" <<'END' && mv "$folder/reaper.pyz.partial" "$folder/reaper.pyz" || test -s "$folder/reaper.pyz" || exit 1
{{ program }}
END
cat >"$folder/reaper.sh.partial" <<'END' && mv "$folder/reaper.sh.partial" "$folder/reaper.sh" || test -s "$folder/reaper.sh" || exit 1
# One that dies is started again; 0 says that there is nothing for it to do here. Every worker tells its host keys.
until python3 -I -S "$1/reaper.pyz" "$1" host-keys; do sleep 5; done &
until python3 -I -S "$1/reaper.pyz" "$1"; do sleep 5; done
END
setsid nohup sh "$folder/reaper.sh" "$folder" >>"$folder/reaper.log" 2>&1 </dev/null &
