// Package chart tests charts/operator: rendered by the real helm, and installed into a real API
// server.
//
// There are three kinds of tests. Golden pairs (testdata/<case>.values.yaml and <case>.out.yaml)
// show a reader how a change of the chart affects the objects. Rules are asserted on the rendered
// objects, in every case: names, ports and selectors as published, least privilege, restricted
// pods. And a real API server checks whether it accepts the objects, which requests it sends to the
// webhook, the permissions of the service accounts, and whether a release can be installed,
// upgraded and uninstalled.
//
// helm, kube-apiserver and etcd are those that tools/cluster builds. A test that finds none fails
// with the remedy.
package chart
