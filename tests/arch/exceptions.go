package arch

// exceptions are accepted findings, each with its reason. The key is the beginning of the finding;
// an exception that matches no finding fails the test.
var exceptions = map[string]string{
	"eventbus/embedded/store/disk.go: writeFile":               "writeSynced also renames the file; the files of a probe are never read",
	"tools/cluster/internal/cleanup/before.go: restoreSetting": "a setting of the kernel",
	"tools/cluster/internal/cleanup/mounts.go: CreateCgroup":   "a setting of the kernel",
	"tools/cluster/internal/cleanup/mounts.go: inheritCPUs":    "a setting of the kernel",
	"tools/cluster/internal/netns/setup.go: Setup":             "a setting of the kernel",
	"workflows/jobexec/executor/memory.go: preferForMemory":    "a setting of the kernel",
	"tools/gen/files.go: apply":                                "a source file, which git compares; gen-check finds half of one",
	"tools/gen/rules.go: rules":                                "a module that lives as long as one run",
}
