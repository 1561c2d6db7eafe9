package frame

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// Profile begins profiles of this process in a folder, unless that is "", and returns a function
// that ends them: the memory in use before and after, and the processor time between.
func Profile(dir, name string) (end func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	path := filepath.Join(dir, name)
	if err := profileHeap(path + ".heap-before"); err != nil {
		return nil, err
	}
	cpu, err := os.Create(path + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), profileHeap(path+".heap"))
	}, nil
}

func profileHeap(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// Heap returns the memory in use of Go's heap, in bytes, after a collection.
func Heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
