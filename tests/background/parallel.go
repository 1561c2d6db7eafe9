package background

import (
	"flag"
	"runtime"
	"strconv"
)

// AtOnce lets n parallel tests run at the same time, for tests that wait most of the time. By default
// it is one for each processor. A value from the command line stays. It is called after flag.Parse.
func AtOnce(n int) {
	at := flag.Lookup("test.parallel")
	if at.Value.String() != strconv.Itoa(runtime.GOMAXPROCS(0)) {
		return
	}
	if err := at.Value.Set(strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
