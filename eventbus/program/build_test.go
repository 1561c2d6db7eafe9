package program

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionNamesTheSource(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-27T00:00:00Z"}, {Key: "GOOS", Value: "linux"}}}
	if got := builtFrom(info, true); got != (Build{"v1.2.3", "abc", "2026-11-27T00:00:00Z"}) {
		t.Errorf("with everything: %+v", got)
	}
	for name, got := range map[string]Build{"without anything": builtFrom(&debug.BuildInfo{}, true), "unknown": builtFrom(nil, false)} {
		if got != (Build{Version: "(devel)"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
