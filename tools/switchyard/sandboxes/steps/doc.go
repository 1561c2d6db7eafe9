// Package steps contains the commands for the steps that create and delete the resources of
// sandboxes: resource and logs. They need only a kubeconfig.
//
//	resource list, get          resources, and the progress of each step   resource.go
//	                            remedies for failed steps                  todo.go
//	                            its output as text                         picture.go
//	resource retry, give-up     requests to the operator                   ask.go
//	logs                        output of scripts                          logs.go
//
// The operations are in workflows/steps.
package steps
