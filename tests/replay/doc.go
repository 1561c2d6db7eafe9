// Package replay plays stories from text files through the real code, and compares what
// it answers with what the files say. They are in testdata, a folder for each theme and a
// file for each story; go test ./tests/replay -update writes the answers anew.
//
// A step is a command, its input, a line of dashes, and what is answered:
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
// A story begins in one of two ways. With facts: they are put on a log in memory as they
// stand. Or with objects of a cluster (package fakecluster): then the controllers of all
// kinds look at everything until they are at rest, and a real publisher puts what they
// state on the log. Either way a real route server follows that log.
//
// What happens (each answers with the facts that are recorded because of it):
//
//	facts       one line for each fact, see fact_test.go for the forms
//	forget      SEQUENCE: the log forgets what is before this floor
//	again       the log is begun anew, with nothing in it
//	operator    namespaces=(a,b) headers=(a,b) meshes=(istio,gateway-api) workflows
//	            refuse-policies: how the operator is set up; comes first. With workflows it runs
//	            the units of resources; refuse-policies is policies.workloads: refuse
//	baseline    NAMESPACE/NAME…: a Deployment with a Service, and a pod with a sidecar
//	sandbox     NAME key=KEY forks=(NAMESPACE/NAME,…), and more of its spec as input
//	group       NAME key=KEY sandboxes=(NAME,…): a route group
//	objects     objects in YAML, without apiVersion: they are created, or merged with those
//	            that are there. It is a template, in which times N can be ranged over
//	delete      KIND/NAMESPACE/NAME or KIND/NAME, several in a line
//	rollout     all Deployments get the pods that they ask for
//	unit        LIFECYCLE/UNIT succeeds|fails: the pod of a unit that runs ends, its outputs
//	            with their keys as values; lines of input are what its script has printed last
//	lose        the store of the log is lost; the publisher begins another
//	clock       DURATION: so much time passes
//	leave       nobody leads any more
//	lead        another process leads, which remembers nothing; once in a story
//	uninstall   the cluster is drained, while the operator works
//
// What is asked:
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
// Epochs are called e1, e2, …, and what is said of times and hashes of versions is left
// out.
package replay
