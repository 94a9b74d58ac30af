#!/bin/sh
# Starts a Redis of the group: redis.sh master | replica | sentinel. The password
# is written into a file that only this container has, never on a command line.
set -eu
umask 077
dir=${DIR:-/data} secret=${SECRET:-/run/secrets/redis.password} master=${MASTER:-redis} port=${PORT:-6379}
password=\"$(sed 's/[\\"]/\\&/g' "$secret")\"      # as Redis reads quoted words
conf=$dir/redis.conf
case $1 in
  sentinel)
    # Sentinel keeps what it learns in its own file: one that is there stays.
    [ -s "$conf" ] || cat >"$conf" <<END
port ${PORT:-26379}
dir $dir
sentinel resolve-hostnames yes
sentinel monitor sessions $master ${MASTER_PORT:-6379} 2
sentinel auth-pass sessions $password
sentinel down-after-milliseconds sessions 5000
sentinel failover-timeout sessions 30000
requirepass $password
sentinel sentinel-pass $password
END
    exec redis-sentinel "$conf"
    ;;
  master | replica)
    cat >"$conf" <<END
port $port
dir $dir
requirepass $password
masterauth $password
appendonly yes
# A failover loses writes that no replica has: the master takes none while it has no replica.
min-replicas-to-write 1
min-replicas-max-lag 10
# A session is dropped at its end, never for room.
maxmemory-policy noeviction
END
    [ "$1" = master ] || echo "replicaof $master ${MASTER_PORT:-6379}" >>"$conf"
    exec redis-server "$conf"
    ;;
esac
echo "redis.sh: say master, replica or sentinel" >&2
exit 2
