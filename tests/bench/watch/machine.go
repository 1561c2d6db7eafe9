package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// computed is the time that processors have computed since the machine began:
// for this process, for that of the watchers, and for everybody.
type computed struct{ server, watchers, all time.Duration }

// clockTick is the unit of the times in /proc.
const clockTick = 10 * time.Millisecond

// compute reads the clocks of the processors. What cannot be read counts as 0:
// it is for judging the figures, not one of them.
func compute(watchers int) computed {
	var own syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	c := computed{server: time.Duration(own.Utime.Nano() + own.Stime.Nano())}
	if _, after, ok := strings.Cut(read(fmt.Sprintf("/proc/%d/stat", watchers)), ") "); ok {
		c.watchers = ticks(strings.Fields(after), 11, 12)
	}
	line, _, _ := strings.Cut(read("/proc/stat"), "\n")
	c.all = ticks(strings.Fields(line), 1, 2, 3, 6, 7, 8)
	return c
}

func read(path string) string {
	b, _ := os.ReadFile(path) // see compute
	return string(b)
}

func ticks(fields []string, which ...int) (sum time.Duration) {
	for _, i := range which {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64) // see compute
			sum += time.Duration(n) * clockTick
		}
	}
	return sum
}

// since gives the difference, in seconds of computing for each second.
func (c computed) since(before computed, lasted time.Duration) (server, watchers, others float64) {
	server = (c.server - before.server).Seconds() / lasted.Seconds()
	watchers = (c.watchers - before.watchers).Seconds() / lasted.Seconds()
	return server, watchers, (c.all-before.all).Seconds()/lasted.Seconds() - server - watchers
}
