// Package replay runs scenarios from text files through the real code, and compares the results
// with the files. They are in testdata, a directory for each theme and a file for each scenario; go
// test ./tests/replay -update records the results again.
//
// A step is a command, its input, a line of dashes, and the result:
//
//	facts
//	observe fork/shop/alice-customer of=Deployment/shop/customer via=customer>alice-customer@10.0.0.1:80>8080
//	declare alice fork/shop/alice-customer@alice
//	complete
//	----
//	1 observe fork/shop/alice-customer of=Deployment/shop/customer via=customer>alice-customer@10.0.0.1:80>8080
//	2 declare alice fork/shop/alice-customer@alice
//	3 complete
//
// A scenario begins in one of two ways. With facts: they are appended to a log in memory unchanged.
// Or with objects of a cluster (package fakecluster): then the controllers of all kinds reconcile
// everything until nothing changes, and a real publisher appends their facts to the log. Either way
// a real route server follows that log.
//
// Events (the result is the facts that are recorded because of it):
//
//	facts       one line for each fact, see fact_test.go for the forms
//	forget      SEQUENCE: the log deletes the events before this floor
//	again       the log begins again, empty
//	operator    namespaces=(a,b) headers=(a,b) meshes=(istio,gateway-api) workflows
//	            refuse-policies: the operator's configuration; comes first. With workflows it runs
//	            the units of resources; refuse-policies is policies.workloads: refuse
//	baseline    NAMESPACE/NAME…: a Deployment with a Service, and a pod with a sidecar
//	sandbox     NAME key=KEY forks=(NAMESPACE/NAME,…), and more of its spec as input
//	group       NAME key=KEY sandboxes=(NAME,…): a route group
//	objects     objects in YAML, without apiVersion: they are created, or merged with existing
//	            ones. It is a template, in which times N can be ranged over
//	delete      KIND/NAMESPACE/NAME or KIND/NAME, several in a line
//	rollout     all Deployments get their desired number of pods
//	unit        LIFECYCLE/UNIT succeeds|fails: the pod of a running unit ends, its outputs
//	            with their keys as values; lines of input are the last output of its script
//	lose        the store of the log is lost; the publisher begins another
//	clock       DURATION: the clock advances
//	leave       no process is the leader any more
//	lead        another process without state becomes the leader; once in a scenario
//	uninstall   the cluster is drained, while the operator runs
//
// Queries:
//
//	status      KIND or KIND/NAMESPACE/NAME, several in a line: conditions; of those that are
//	            True the names, and the reason where that is another word; the caveats of a
//	            sandbox that is Ready
//	show        KIND, several in a line: all objects of the kind, as they were written
//	xds         KIND/NAMESPACE/NAME: the routes that the sidecars of a workload get
//	routes      the published routes API, over HTTP; the input is the query
//	table, explain, diff, history, watch
//	            the command line, with its arguments; lines of input are headers of a request
//
// Epochs are called e1, e2, …; times and hashes of versions are omitted.
package replay
