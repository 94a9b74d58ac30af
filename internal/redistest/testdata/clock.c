// What redis-server takes for the time of day is ahead by as many seconds as
// the file CLOCK_AHEAD holds, a long. The clock that nobody sets stays as it is.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	static volatile const long *ahead;
	if (!ahead) {
		int f = open(getenv("CLOCK_AHEAD"), O_RDONLY);
		ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, f, 0);
		close(f);
	}
	long failed = syscall(SYS_gettimeofday, tv, tz);
	if (!failed) tv->tv_sec += *ahead;
	return failed;
}
