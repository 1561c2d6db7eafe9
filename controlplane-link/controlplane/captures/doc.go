// Package captures is the Traffic Model Server: it records the requests of forks in clusters, and keeps them for their organisation.
//
//	Store      captures and their segments, in tables of the same store       captures.go, sql.go
//	Recorder   records those of clusters with a session at this replica       recorder.go
//	writer     exchanges to files, with the progress in one transaction       segments.go
//	through    traffic-manager of a cluster, through the link                 through.go
//
// # Contract
//
//   - The replica with the session of a cluster records there, as the author of the capture: the API server and the webhooks check the
//     author's rights for each write, and the lease ends the capture in the cluster when they are lost.
//   - Exchanges are in files at the place of artifacts, below a folder of the organisation and the capture. A file, the cursors of the
//     replicas of traffic-manager and the numbers of the exchanges that were taken are saved at once, if no other replica has saved in the meantime: an
//     exchange is stored once, whatever crashes.
//   - While the link is away, traffic-manager stores. The lease ends the capture after two minutes; exchanges that it stored are read afterwards.
//   - Every read names the organisation, and nothing of another one is found.
package captures
