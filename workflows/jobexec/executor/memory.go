package executor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryKills returns how many processes of this container the kernel has killed because the container had reached
// its memory limit; 0: none, or unknown.
func memoryKills() int {
	for _, file := range memoryFiles() {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
				kills, _ := strconv.Atoi(value) // a number of the kernel
				return kills
			}
		}
	}
	return 0
}

// memoryFiles returns the files that can have the number: of cgroup v1, and of v2. Only one of the two controls memory.
func memoryFiles() []string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it, there are none
	groups, _ := os.ReadFile("/proc/self/cgroup")
	var files []string
	for controller, file := range map[string]string{"memory": "memory.oom_control", "": "memory.events"} {
		if folder := cgroup(string(mounts), string(groups), controller); folder != "" {
			files = append(files, filepath.Join(folder, file))
		}
	}
	return files
}

// cgroup returns the folder of this process in the hierarchy of a controller of cgroup v1, or in that of v2 if the controller is
// "". mounts and groups are /proc/self/mountinfo and /proc/self/cgroup. "": there is none.
func cgroup(mounts, groups, controller string) string {
	own := ""
	for line := range strings.Lines(groups) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && has(parts[1], controller) { //nolint:mnd // number:controllers:path
			own = parts[2]
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		const root, point, kind, options = 3, 4, 0, 2
		if len(where) <= point || len(what) <= options {
			continue
		}
		if controller == "" && what[kind] != "cgroup2" || controller != "" && (what[kind] != "cgroup" || !has(what[options], controller)) {
			continue
		}
		// In a container the folder can be mounted by itself: then the path of the host does not count.
		below, err := filepath.Rel(where[root], own)
		if err != nil || strings.HasPrefix(below, "..") {
			below = ""
		}
		return filepath.Join(where[point], below)
	}
	return ""
}

// has reports whether a list with commas has a word.
func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }
