// Package upgrade sees an operator replaced under load, on a real cluster: an older
// release, with the chart and the images of its time, becomes this one, that one again
// (helm rollback), and this one again. Meanwhile requests go to a workload whose pods, and
// so whose sidecars, are of the older release from beginning to end: none may fail, and
// none may be served by the wrong side. After each step every object is the same one as
// before, and a sandbox made then becomes ready. Sandboxes with a resource are created and deleted
// under different releases: each delete step has to read the value that the create step gave, and
// no value may be left (decision record 51). The installation keeps its defaults. At last the
// operator is uninstalled and installed again, with the sandboxes that stay, and uninstalled
// when no manager runs.
//
// `go test ./tests/upgrade` prepares the cluster and runs itself again inside its network,
// as tests/e2e does, in about five minutes once the images of the older release are built.
// It leaves the cluster up, without the operator.
package upgrade
