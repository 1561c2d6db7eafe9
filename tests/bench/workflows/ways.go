package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// way is a way to have scripts run; it is the name of the file with its object.
type way string

const (
	unit     way = "unit"
	job      way = "job"
	sidecar  way = "sidecar"
	workflow way = "workflow"
	resource way = "resource"
)

// alone are the ways to run one script, in the order in which they take turns.
var alone = []way{unit, job, sidecar, workflow}

// object returns an object of this name.
func (w way) object(name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(object(string(w)), "NAME", name)), &o.Object); err != nil {
		return nil, fmt.Errorf("read the object of %s: %w", w, err)
	}
	return o, nil
}

// ended reports whether an object's status has ended well. The error is for one that has ended
// otherwise.
func ended(o *unstructured.Unstructured) (bool, error) {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	switch phase {
	case "Succeeded":
		return true, nil
	case "Failed", "Error", "OLMFailed":
		return false, wrong(o)
	}
	for _, kind := range []string{"Ready", "Complete", "Succeeded", "Failed", "Finished"} {
		if status(o, kind) == "True" {
			if kind == "Failed" || kind == "Finished" {
				return false, wrong(o)
			}
			return true, nil
		}
	}
	return false, nil
}

// status returns that of a condition.
func status(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, is := c.(map[string]any); is && c["type"] == kind {
			text, _ := c["status"].(string)
			return text
		}
	}
	return ""
}

func wrong(o *unstructured.Unstructured) error {
	return fmt.Errorf("%s %s failed: %v", o.GetKind(), o.GetName(), o.Object["status"])
}
