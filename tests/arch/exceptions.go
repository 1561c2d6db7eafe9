package arch

// exceptions are findings that stand, each with its reason. The key is the
// beginning of the finding; one that matches nothing any more fails the test.
var exceptions = map[string]string{
	"eventbus/embedded/store/disk.go: writeFile":               "writeSynced renames what it writes; nobody reads the files of a probe",
	"tools/cluster/internal/cleanup/before.go: restoreSetting": "a setting of the kernel",
	"tools/cluster/internal/cleanup/mounts.go: CreateCgroup":   "a setting of the kernel",
	"tools/cluster/internal/cleanup/mounts.go: inheritCPUs":    "a setting of the kernel",
	"tools/cluster/internal/netns/setup.go: Setup":             "a setting of the kernel",
	"tools/gen/files.go: apply":                                "a source file, which git compares; gen-check finds half of one",
	"tools/gen/rules.go: rules":                                "a module that lives as long as one run",
}
