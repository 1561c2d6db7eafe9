// Command workflows measures what a unit of a resource costs beside its script, on a real
// one-node cluster. It prints one line for each number: its name, its value, its unit, and
// whether it meets its target. It never fails on a number: machines differ, and the reader
// judges. It fails when something that it runs does not come to its end.
//
// # One at a time
//
// A script that does nothing (sh, exit 0), in the same image, is run once as
//
//	unit      a SignadotObjectLifecycleMethods with one unit: a pod in which io-init, the script
//	          and io-sidecar run
//	job       a Job
//	sidecar   a Job with an init container and a native sidecar in its pod that do nothing
//	workflow  a Workflow of Argo Workflows with one container template
//
// and that again in turn, so that other load of the machine affects all alike. A unit without
// inputs is ready when its object exists. So the time goes from just before the object is
// created, by the clock of this process, until a watch reports to this process that the object's
// status has ended well: the condition Ready, the condition Complete, the phase Succeeded. The
// script's own time is left in it, the same for all, and printed. Between two runs everything is
// removed, and a pause of random length keeps pollers (the kubelet checks containers once a
// second) from being in step with this program.
//
// The controller of Jobs collects events of pods for a second before it syncs a Job, as it does
// everywhere: that is in both figures of Jobs.
//
// Argo Workflows is installed by its own manifests, and made faster than by default: its
// controller syncs a workflow ten times a second (DEFAULT_REQUEUE_TIME) rather than once in ten
// seconds, which would be most of its time. Its executor checks for the end of the script once a
// second. The module lacks a file of that for Linux, and the one for macOS replaces it
// (tools/argoworkflows).
//
// Writes are those that the API server counts from before an object is created until nothing is
// left of it, without leases and the status of nodes.
//
// # Many at once
//
// 200 Resources, each of three units: one that gives an output, one that reads it, and one that
// reads it when the Resource is deleted. All are created at once, and all are deleted once the last
// is ready. The operator bounds the units of one resource (workflows.parallelUnits, 10), not
// those of all, and the node takes 110 pods (the kubelet's own bound): the others wait for it.
// Memory is the metric of the pods of the manager and of the IO context server, read twice a
// second.
//
// # Jobs
//
// With -jobs (`make bench-jobs`) a script that prints a line is run instead, in turn, by a Job, a Job with
// an init container and a native sidecar, `kubectl run --attach`, a Workflow, and Jobs of Switchyard: by `switchyard job
// submit --attach` with a pod that is idle, and beside a new runner group with one pod. Two times are measured, both from
// just before the program starts or the first object is created: until this process has the line, from the program or from
// the log of the container, which is asked for as soon as a watch reports that it has started; and until it knows of the
// end, by the end of the program or by a watch.
package main
