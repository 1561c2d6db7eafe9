package istioadapter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Settings configure the routing by VirtualServices.
type Settings struct {
	// Enabled: there is an adapter.
	Enabled bool
	// Labels and Annotations are added to a VirtualService while it has the operator's routes, unless
	// it has one of the same name.
	Labels, Annotations map[string]string
}

// Validate returns which setting is wrong, and why; nil when none is.
func (s Settings) Validate() error {
	wrong := metav1validation.ValidateLabels(s.Labels, field.NewPath("additionalLabels"))
	wrong = append(wrong, apivalidation.ValidateAnnotations(s.Annotations, field.NewPath("additionalAnnotations"))...)
	for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
		if strings.HasPrefix(name, "istio.signadot.com/") {
			wrong = append(wrong, field.Invalid(field.NewPath("additionalAnnotations"), name, "the operator writes annotations of istio.signadot.com itself"))
		}
	}
	if err := wrong.ToAggregate(); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}
