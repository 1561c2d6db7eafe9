package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/tunnels/attempts"
	"switchyard.dev/tunnels/driver"
)

func TestASessionContinuesBesideAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := driver.New(t.Context())
		defer d.Running.Wait()
		defer d.Close()
		var began []context.Context
		begin := func(step attempts.Step) {
			d.Do(step, func(ctx context.Context) {
				began = append(began, ctx)
				<-ctx.Done()
			})
			synctest.Wait()
		}
		ended := func(want ...bool) {
			t.Helper()
			for i, ctx := range began {
				if got := ctx.Err() != nil; got != want[i] {
					t.Errorf("attempt %d has ended: %v", i, got)
				}
			}
		}
		begin(attempts.Step{Dial: 1})
		begin(attempts.Step{Dial: 2})
		ended(true, false)
		begin(attempts.Step{Dial: 3, Aside: true})
		begin(attempts.Step{Dial: 4})
		ended(true, false, true, false)
		d.Gap()
		begin(attempts.Step{Drop: true, At: time.Now().Add(time.Minute)})
		ended(true, true, true, true)
		<-d.Due.C
		if gap := d.Gap(); gap != time.Minute {
			t.Errorf("after a minute the gap is %s", gap)
		}
	})
}
