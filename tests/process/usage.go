package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memory returns how much of the process is in memory, in MiB: now, and at most since
// Forget.
func (p *Process) Memory() (now, most float64, err error) { return Memory(p.ID()) }

// Forget forgets what the most was.
func (p *Process) Forget() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.ID()), []byte("5"), 0)
}

// Memory returns how much of a process is in memory, in MiB: now, and at most.
func Memory(pid int) (now, most float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for field, value := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &most} {
		_, after, _ := strings.Cut(string(status), field)
		if _, err := fmt.Sscan(after, value); err != nil {
			return 0, 0, fmt.Errorf("read %s of process %d: %w", field, pid, err)
		}
		*value /= 1024
	}
	return now, most, nil
}

// Children returns the processes that a process has started and that have not ended.
func Children(pid int) (all []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // The pattern is well formed.
	for _, file := range files {
		if fields := stat(file); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// Family returns a process with its children, their children, and so on.
func Family(pid int) []int {
	all := []int{pid}
	for _, child := range Children(pid) {
		all = append(all, Family(child)...)
	}
	return all
}

// Busy starts to measure CPU use. The returned function returns the average number of busy
// processors since then, for each process and for all others on the machine. Unreadable values
// count as 0, since they are only for judging figures.
func Busy(pids ...int) func() (each []float64, others float64) {
	began, before := time.Now(), computed(pids)
	return func() (each []float64, others float64) {
		lasted := time.Since(began).Seconds()
		for i, now := range computed(pids) {
			each = append(each, (now-before[i]).Seconds()/lasted)
		}
		last := len(pids)
		others = each[last]
		for _, own := range each[:last] {
			others -= own
		}
		return each[:last], others
	}
}

// Computed returns the time that processors have computed for a process; 0 once it has ended.
func Computed(pid int) time.Duration { return computed([]int{pid})[0] }

// computed returns the processor time of each process, and last that of the whole machine.
func computed(pids []int) (times []time.Duration) {
	for _, pid := range pids {
		times = append(times, ticks(stat(fmt.Sprintf("/proc/%d/stat", pid)), 11, 12))
	}
	machine, _ := os.ReadFile("/proc/stat") // see Busy
	line, _, _ := strings.Cut(string(machine), "\n")
	return append(times, ticks(strings.Fields(line), 1, 2, 3, 6, 7, 8))
}

// stat returns the fields that follow the name in a process's stat; none when it has ended.
func stat(file string) []string {
	text, _ := os.ReadFile(file)
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.Fields(after)
}

// ticks adds up times, which the kernel counts in hundredths of a second.
func ticks(fields []string, which ...int) (sum time.Duration) {
	for _, i := range which {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64) // see Busy
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
