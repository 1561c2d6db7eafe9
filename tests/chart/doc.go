// Package chart tests charts/operator as its users get it: rendered by the real
// helm, and installed into a real API server.
//
// Three sorts of tests are here. Golden pairs (testdata/<case>.values.yaml and
// <case>.out.yaml) show a reader what a change of the chart does to the objects.
// Rules are asserted on the rendered objects, in every case: names, ports and
// selectors as published, least rights, restricted pods. And a real API server
// says whether it takes the objects, whom the webhook is called for, what the
// service accounts may do, and whether a release can be installed, upgraded and
// taken away.
//
// helm, kube-apiserver and etcd are those that tools/cluster builds. A test
// that finds none fails and says how to get them.
package chart
