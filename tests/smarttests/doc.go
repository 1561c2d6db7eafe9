// Package smarttests runs Smart Tests with a real control plane, agent, API server, manager and interpreter. Processes of this
// machine act as the pods of the runner group.
package smarttests
