package inject

import "testing"

func TestDifferencesAsAPhrase(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"image of the sidecar"}, "injected with another image of the sidecar than now"},
		{[]string{"image of the init container", "image of the sidecar"}, "injected with another image of the sidecar and of the init container than now"},
		{[]string{"resources of the init container", "resources of the sidecar"}, "injected with other resources of the sidecar and of the init container than now"},
		{[]string{"image of the sidecar", "resources of the init container", "routing.iptablesMode"}, "injected with another image of the sidecar, other resources of the init container, another routing.iptablesMode than now"},
		{[]string{"address of the route server"}, "injected with another address of the route server than now"},
		{[]string{`annotation a: "x" is not a quantity`}, `new pods get no sidecar: annotation a: "x" is not a quantity`},
		{[]string{`annotation a: wrong`, "image of the sidecar"}, "injected with another image of the sidecar than now; new pods get no sidecar: annotation a: wrong"},
	} {
		if got := Differences(tt.names); got != tt.want {
			t.Errorf("%q:\n got %q\nwant %q", tt.names, got, tt.want)
		}
	}
}

// Each setting that Outdated names has words of its own.
func TestDifferencesOfEachSetting(t *testing.T) {
	have, now := Settings{}, Settings{}
	for _, f := range []struct{ a, b *string }{
		{&have.Sidecar, &now.Sidecar}, {&have.Redirect, &now.Redirect}, {&have.XDSAddress, &now.XDSAddress},
		{&have.RouteServer, &now.RouteServer}, {&have.IptablesMode, &now.IptablesMode}, {&have.Label, &now.Label},
		{&have.SidecarResources, &now.SidecarResources}, {&have.RedirectResources, &now.RedirectResources},
	} {
		*f.a, *f.b = "a=1", "b=1"
	}
	const want = "injected with another image of the sidecar and of the init container, other resources of the sidecar and of the init container, " +
		"another address of the route server, another encryption of the connection to the route server, another routing.iptablesMode, another label " + LabelInjected + " than now"
	if got := Differences(have.Outdated(now)); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
