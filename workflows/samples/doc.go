// Package samples has resource plugins to begin with, each beside a sandbox that uses it:
//
//	postgres     a database, made, seeded and dropped, on a PostgreSQL server
//	opentofu     the same by OpenTofu, with its state in a Secret
//	queue        a stream on a NATS server
//	python       a step in Python, which asks a service over HTTP
//	helm         a Helm release
//	kubernetes   a Redis server, of plain Kubernetes objects
//
// Each folder has plugin.yaml, sandbox.yaml, rbac.yaml where the steps ask the API server for
// something, and a README. tests/e2e/workflows runs each on a real cluster.
package samples

import "embed"

// Files are those of all samples, each in a folder of its name.
//
//go:embed */*.yaml */*.tf */README.md
var Files embed.FS
