// Package upgrade tests upgrades of the operator under load, on a real cluster: an older release,
// with its chart and images, is upgraded to this one, rolled back (helm rollback), and upgraded
// again. In the meantime requests go to a workload that keeps its pods, and so its sidecars, of the older
// release from beginning to end: none may fail, and none may be served by the wrong side. After
// each step every object is the same one as before, and a sandbox created then becomes ready.
// Sandboxes with a resource are created and deleted under different releases: each delete step must
// read the value of the create step, and no value may be left (decision record 51). The
// installation uses the chart's defaults. The cluster is then connected to a control plane, and its agent is upgraded and
// rolled back while requests and long-lived connections pass it. Finally the operator is uninstalled and installed again,
// with the remaining sandboxes, and uninstalled while no manager runs.
//
// `go test ./tests/upgrade` prepares the cluster and runs itself again inside its network, as
// tests/e2e does, in about five minutes once the images of the older release are built. It leaves
// the cluster up, without the operator.
package upgrade
