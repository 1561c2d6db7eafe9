package executor

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/workflows/jobexec/socket"
)

// TestWhatIsNotKilledIsReported has the outcomes that no test can cause: processes that the kernel does not end.
func TestWhatIsNotKilledIsReported(t *testing.T) {
	failed := syscall.WaitStatus(7 << 8)
	for what, tt := range map[string]struct {
		outcome outcome
		want    socket.Ending
		message string
	}{
		"a daemon of a script that succeeded": {outcome{ended: true, left: 1}, socket.Ending{Leftover: true}, "1 of its processes cannot be killed"},
		"daemons of one that failed": {outcome{ended: true, left: 3, status: failed}, socket.Ending{ExitCode: 7, Reason: "ScriptFailed", Leftover: true},
			"the script ended with exit code 7; 3 of its processes cannot be killed"},
		"a script beyond its timeout": {outcome{cause: socket.TimedOut, timeout: time.Minute, left: 1}, socket.Ending{Reason: socket.TimedOut, TimedOut: true, Leftover: true},
			"the script did not end within its timeout of 1m0s, and was stopped; 1 of its processes cannot be killed"},
		"processes that cannot be listed": {outcome{ended: true, problem: errors.New("no /proc")}, socket.Ending{Leftover: true}, "no /proc"},
		"a timeout comes before memory":   {outcome{ended: true, cause: socket.TimedOut, outOfMemory: true, status: 9}, socket.Ending{ExitCode: 137, Signal: 9, Reason: socket.TimedOut, TimedOut: true}, "timeout"},
	} {
		got := tt.outcome.ending()
		if !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: the message is %q", what, got.Message)
		}
		if got.Message = ""; got != tt.want {
			t.Errorf("%s: %+v, not %+v", what, got, tt.want)
		}
	}
}

func TestTheCgroupOfAContainer(t *testing.T) {
	const (
		v1Groups = "5:cpu,cpuacct:/kubepods/pod1/c1\n4:memory:/kubepods/pod1/c1\n0::/system\n"
		v1Mount  = "30 25 0:26 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro,nosuid shared:1 - cgroup cgroup rw,memory\n"
		v1Host   = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		v2Mount  = "29 24 0:25 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"
	)
	for what, tt := range map[string]struct{ mounts, groups, controller, want string }{
		"v1 in a container":          {"20 1 0:1 / / rw - overlay overlay rw\n" + v1Mount, v1Groups, "memory", "/sys/fs/cgroup/memory"},
		"v1 on a host":               {v1Host, v1Groups, "memory", "/sys/fs/cgroup/memory/kubepods/pod1/c1"},
		"v1, with a namespace of v1": {v1Mount, "4:memory:/\n", "memory", "/sys/fs/cgroup/memory"},
		"v2 in a container":          {v2Mount, "0::/\n", "", "/sys/fs/cgroup"},
		"v2 on a host":               {v2Mount, "0::/kubepods.slice/c1\n", "", "/sys/fs/cgroup/kubepods.slice/c1"},
		"v2 has no v1":               {v2Mount, "0::/\n", "memory", ""},
		"v1 has no v2":               {v1Mount, v1Groups, "", ""},
	} {
		if got := cgroup(tt.mounts, tt.groups, tt.controller); got != tt.want {
			t.Errorf("%s: %q, not %q", what, got, tt.want)
		}
	}
}
