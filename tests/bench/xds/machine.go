package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// computed is the time that processors have computed since the machine began:
// for the server, for the clients, and for everybody.
type computed struct{ server, clients, all time.Duration }

// clockTick is the unit of the times in /proc.
const clockTick = 10 * time.Millisecond

// compute reads the clocks of the processors. What cannot be read counts as 0:
// it is for judging the figures, not one of them.
func compute(server, clients int) computed {
	of := func(pid int) time.Duration {
		_, after, _ := strings.Cut(read(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
		return ticks(strings.Fields(after), 11, 12)
	}
	line, _, _ := strings.Cut(read("/proc/stat"), "\n")
	return computed{server: of(server), clients: of(clients), all: ticks(strings.Fields(line), 1, 2, 3, 6, 7, 8)}
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
func (c computed) since(before computed, lasted time.Duration) (server, clients, others float64) {
	server = (c.server - before.server).Seconds() / lasted.Seconds()
	clients = (c.clients - before.clients).Seconds() / lasted.Seconds()
	return server, clients, (c.all-before.all).Seconds()/lasted.Seconds() - server - clients
}
