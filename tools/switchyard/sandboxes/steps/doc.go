// Package steps has the commands about the steps that make and remove the resources of
// sandboxes: resource and logs. They work with a kubeconfig alone.
//
//	resource list, get          what there is, and how far each step is    resource.go
//	                            what is known of a resource                report.go
//	                            what people are shown of it                picture.go
//	resource retry, give-up     what is asked of the operator              ask.go
//	logs                        what scripts write                         logs.go, tail.go
package steps
