package job

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/job/upload"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobs"
)

// memory has open calls, answers, turns and recent writes of one group. Its reconciliations use it one at a time.
type memory struct {
	turns jobs.Turns
	jobs  written[*crdv1.Job]
	pods  written[*corev1.Pod]
	// last are the pods as they were seen last, also after their end while a job has run there.
	last map[types.UID]*corev1.Pod
	// asked is when all Jobs were listed past the cache.
	asked time.Time
	// followers are those of executions, by the UID of their job.
	followers map[types.UID]*follower
	// dropped are executions of which runners have deleted the results for later ones.
	dropped map[types.UID]uint32
	// released are executions of which runners have deleted the results after they were read.
	released released
	// uploads put results into the bucket, by the UID of their job.
	uploads map[types.UID]*upload.Upload
	// runners are the clients of pods, by their UIDs.
	runners map[types.UID]*reached
}

// reached is the client of a pod at an address: a pod gets another one when its node has restarted.
type reached struct {
	*runner.Client
	ip string
	// silence ends the questions for results that are released; nil: there are none.
	silence context.CancelFunc
}

// quiet ends the questions.
func (r *reached) quiet() {
	if r.silence != nil {
		r.silence()
		r.silence = nil
	}
}

// close ends all calls.
func (r *reached) close() {
	r.quiet()
	_ = r.Close() // nothing answers there as this pod, or all calls have ended
}

// drops records what runners have reported about the results of earlier executions of these jobs.
func (m *memory) drops(own []*crdv1.Job) {
	for _, f := range m.followers {
		for _, ref := range f.known().Status.GetDrops() {
			m.dropped[types.UID(ref.GetJobUid())] = ref.GetExecution()
		}
	}
	there := map[types.UID]bool{}
	for _, j := range own {
		there[j.UID] = true
	}
	gone := func(uid types.UID, _ uint32) bool { return !there[uid] }
	maps.DeleteFunc(m.dropped, gone)
	m.released.mu.Lock()
	defer m.released.mu.Unlock()
	maps.DeleteFunc(m.released.known, gone)
}

// memory returns that of a group.
func (r *Reconciler) memory(name types.NamespacedName) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups[name] == nil {
		r.groups[name] = &memory{jobs: written[*crdv1.Job]{}, pods: written[*corev1.Pod]{}, last: map[types.UID]*corev1.Pod{},
			followers: map[types.UID]*follower{}, dropped: map[types.UID]uint32{}, released: released{known: map[types.UID]uint32{}}, uploads: map[types.UID]*upload.Upload{}, runners: map[types.UID]*reached{}}
	}
	return r.groups[name]
}

// forget drops the memory of a group.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, name)
}

// written are objects as the API server returned them from writes, by UID, until the cache has them.
type written[O client.Object] map[types.UID]O

// newest returns the newer one of an object from the cache and the last one that was written.
func (w written[O]) newest(cached O) O {
	own, is := w[cached.GetUID()]
	if !is {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), own.GetResourceVersion()); err == nil && order < 0 {
		return own
	}
	delete(w, cached.GetUID())
	return cached
}

// keep drops all objects but these.
func (w written[O]) keep(all []O) {
	there := map[types.UID]bool{}
	for _, o := range all {
		there[o.GetUID()] = true
	}
	maps.DeleteFunc(w, func(uid types.UID, _ O) bool { return !there[uid] })
}
