package services

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
)

// TrafficName returns the name of the second Service of a fork, for one of its Services: that of captures, or that of an
// override. It exists while such a TrafficCapture is attached to the fork. Proxies open new connections for another Service,
// which reach the container that records.
func TrafficName(service string, override bool) string {
	if override {
		return crdv1.ObjectName(crdv1.MaxServiceName, "override", service)
	}
	return crdv1.ObjectName(crdv1.MaxServiceName, "traffic", service)
}

// Redirect changes the Mappings of a fork with this pod for its captures, and returns the Services to apply beside
// those of the Mappings. While a capture is attached, each Service has a second one, which sends requests to the container that records. While
// the requests of the fork are redirected, the second one replaces the Service of the baseline, and the first sends
// requests to the container too.
func Redirect(all []member.Mapping, pod corev1.PodSpec, captures []crdv1.TrafficCapture, forkedWorkload string) (beside []*corev1.Service) {
	listening, redirected := map[int32]int32{}, false
	var attached [2]bool // captures, and an override
	var overridden bool
	for i := range captures {
		c := &captures[i]
		override := c.Spec.Override != nil
		if c.Redirects(forkedWorkload) != nil {
			redirected, overridden = true, overridden || override
		}
		for _, p := range c.Status.Pods {
			for _, port := range p.Ports {
				if p.Workload == forkedWorkload {
					listening[port.Application] = port.Listening
					attached[kindOf(override)] = true
				}
			}
		}
	}
	for i, m := range all {
		turned, some := turn(m.Service, pod, listening)
		for kind := range attached {
			if !some || !attached[kind] {
				continue
			}
			second := turned.DeepCopy()
			second.Name = TrafficName(second.Name, kind == kindOf(true))
			if redirected && kind == kindOf(overridden) {
				all[i].Service, second = second, turned
			}
			beside = append(beside, second)
		}
	}
	return beside
}

// kindOf is the number of the kind of a capture.
func kindOf(override bool) int {
	if override {
		return 1
	}
	return 0
}

// turn returns a copy of a Service with the target ports of captures; false if none of its ports is captured. s may be
// nil.
func turn(s *corev1.Service, pod corev1.PodSpec, listening map[int32]int32) (*corev1.Service, bool) {
	if s == nil || len(listening) == 0 {
		return nil, false
	}
	out, some := s.DeepCopy(), false
	for i, p := range out.Spec.Ports {
		target, ok := baseline.ListensOn(pod, p)
		if to := listening[target]; ok && to != 0 && p.Protocol == corev1.ProtocolTCP {
			out.Spec.Ports[i].TargetPort, some = intstr.FromInt32(to), true
		}
	}
	return out, some
}

// Captured returns the TCP ports that the application of a fork listens on for the requests of its Services.
func Captured(own []corev1.Service, pod corev1.PodSpec) (ports []int32) {
	for _, s := range own {
		for _, p := range s.Spec.Ports {
			if target, ok := baseline.ListensOn(pod, p); ok && baseline.ProtocolOf(p.Protocol) == corev1.ProtocolTCP {
				ports = append(ports, target)
			}
		}
	}
	return ports
}
