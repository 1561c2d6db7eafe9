package hostile_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tests/hostile"
	"switchyard.dev/tests/process"
)

// cluster is what all tests share: to start an API server takes longer than they
// do.
var cluster *hostile.Cluster

func TestMain(m *testing.M) {
	if process.Role() == hostile.Role {
		if err := process.Answer(&hostile.Target{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(withCluster(m.Run))
}

func withCluster(run func() int) int {
	var err error
	if cluster, err = hostile.StartCluster(context.Background(), hostile.Pods); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = cluster.Stop() }()
	return run()
}

// unbounded is what no attack may cost here: the target is a figure, which make
// bench-xds prints and a busy machine misses by a little; without a limit of the
// server's the same attacks cost 340 MiB and more.
const unbounded = 2 * hostile.MostMiB

func suffer(t *testing.T, n int, attacks ...hostile.Attack) {
	t.Helper()
	t.Parallel()
	for _, a := range attacks {
		t.Run(a.Name, func(t *testing.T) {
			cost, err := open(t).Suffer(t.Context(), a.Name, n, a)
			t.Logf("%+v", cost)
			if err != nil {
				t.Error(err)
			}
			if cost.Most > unbounded {
				t.Errorf("it cost %.1f MiB, more than %d", cost.Most, unbounded)
			}
		})
	}
}

func open(t *testing.T) *hostile.Site {
	t.Helper()
	site, err := hostile.Open(context.Background(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	return site
}

func TestRejectedCallsCostLittle(t *testing.T)   { suffer(t, 200, hostile.Refused()...) }
func TestHeldConnectionsCostLittle(t *testing.T) { suffer(t, 256, hostile.Held()...) }
func TestFloodsOfFramesCostLittle(t *testing.T)  { suffer(t, 5000, hostile.Floods()...) }
func TestSilenceCostsLittle(t *testing.T)        { suffer(t, 40, hostile.Silence()) }

func TestAClientThatRejectsEverythingGetsEachVersionOnce(t *testing.T) {
	t.Parallel()
	site := open(t)
	for i, form := range []hostile.Form{hostile.Whole, hostile.InParts} {
		const changes, returns = 30, 4
		r, err := site.RejectEverything(t.Context(), i, form, changes, returns)
		if err != nil {
			t.Fatal(err)
		}
		// One for each version, and one each time that it comes back.
		if want := 1 + changes + returns; r.Responses != want || r.Again != 0 {
			t.Errorf("%s: %d responses, %d of them a version again; want %d and none", form.Type, r.Responses, r.Again, want)
		}
	}
}
