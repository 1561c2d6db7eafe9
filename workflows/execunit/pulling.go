package execunit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pull is an image that the kubelet pulls. The status of the pod does not show that: its containers wait to be created.
type Pull struct {
	Container, Image string
	// Since is when the kubelet reported that it pulls it.
	Since time.Time
}

// Reasons of the kubelet's Events about the image of a container.
const pulling = "Pulling"

var pulled = []string{"Pulled", "Failed", "BackOff", "Created", "Started"}

// PullOf returns the image that is pulled for a container of a pod which waits, from the Events about the pod; nil: none is.
func PullOf(pod *corev1.Pod, events []corev1.Event) *Pull {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		var began, ended time.Time
		for _, e := range events {
			switch about := e.InvolvedObject; {
			case about.UID != pod.UID || !strings.HasSuffix(about.FieldPath, "{"+s.Name+"}"):
			case e.Reason == pulling && e.LastTimestamp.After(began):
				began = e.LastTimestamp.Time
			case slices.Contains(pulled, e.Reason) && e.LastTimestamp.After(ended):
				ended = e.LastTimestamp.Time
			}
		}
		if s.State.Waiting != nil && began.After(ended) {
			return &Pull{Container: s.Name, Image: imageOf(pod, s), Since: began}
		}
	}
	return nil
}

// pulling returns the message about a pull.
func (l view) pulling() string {
	return fmt.Sprintf("the pod %s of %s is starting: the image %s of its container %s is being pulled since %s.",
		l.name(), l.Owner, quoted(l.Pull.Image), l.Pull.Container, l.Pull.Since.UTC().Format(time.TimeOnly+" MST"))
}
