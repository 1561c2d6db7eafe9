package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc.
const clockTick = 10 * time.Millisecond

// computed is the time that processors have computed since the machine began: for
// this process and those it has started, and for everybody.
type computed struct {
	when           time.Time
	own, everybody time.Duration
}

// compute reads the clocks of the processors. What cannot be read counts as 0: it
// is for judging the figures, not one of them.
func compute() computed {
	type process struct {
		parent string
		took   time.Duration
	}
	processes := map[string]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // see above
	for _, file := range files {
		text, _ := os.ReadFile(file) // It may have ended by now.
		if _, after, ok := strings.Cut(string(text), ") "); ok {
			fields := strings.Fields(after)
			processes[filepath.Base(filepath.Dir(file))] = process{fields[1], ticks(fields, 11, 12)}
		}
	}
	self, c := strconv.Itoa(os.Getpid()), computed{when: time.Now()}
	for pid, p := range processes {
		for at, hops := pid, 0; at != "" && hops < 100; at, hops = processes[at].parent, hops+1 {
			if at == self {
				c.own += p.took
				break
			}
		}
	}
	stat, _ := os.ReadFile("/proc/stat") // see above
	line, _, _ := strings.Cut(string(stat), "\n")
	c.everybody = ticks(strings.Fields(line), 1, 2, 3, 6, 7, 8)
	return c
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

// busy gives how many processors computed for us and for others, on average,
// since an earlier reading.
func (c computed) busy(before computed) (own, others float64) {
	lasted := c.when.Sub(before.when).Seconds()
	own = (c.own - before.own).Seconds() / lasted
	return own, (c.everybody-before.everybody).Seconds()/lasted - own
}
