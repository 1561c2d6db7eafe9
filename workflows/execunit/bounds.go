package execunit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkPowers maps each check of Pod Security baseline to the power that permits the fields that it forbids.
var checkPowers = map[policy.CheckID]Power{
	"appArmorProfile":            SecurityProfiles,
	"capabilities_baseline":      Capabilities,
	"hostNamespaces":             HostNamespaces,
	"hostPathVolumes":            HostPath,
	"hostPorts":                  HostPorts,
	"hostProbesAndHostLifecycle": ProbeHosts,
	"privileged":                 Privileged,
	"procMount":                  Privileged,
	"seLinuxOptions":             SecurityProfiles,
	"seccompProfile_baseline":    SecurityProfiles,
	"sysctls":                    Sysctls,
	"windowsHostProcess":         Privileged,
}

// baseline refuses fields that the newest Pod Security baseline forbids.
func (c checking) baseline() *Problem {
	t := c.exec.PodTemplate
	for _, check := range policy.DefaultChecks() {
		if check.Level != api.LevelBaseline {
			continue
		}
		power, known := checkPowers[check.ID]
		if known && slices.Contains(c.Allow, power) {
			continue
		}
		result := check.Versions[len(check.Versions)-1].CheckPod(&t.ObjectMeta, &t.Spec)
		if result.Allowed {
			continue
		}
		what := result.ForbiddenReason
		if result.ForbiddenDetail != "" {
			what += " (" + cut(result.ForbiddenDetail, maxText) + ")"
		}
		return c.notAllowed(power, what)
	}
	return nil
}

// notAllowed refuses a field that requires a power.
func (c checking) notAllowed(power Power, what string) *Problem {
	setting := ""
	if power != "" {
		setting = fmt.Sprintf(", or, for every step, let the operator's chart have %s: [%s]", Setting, power)
	}
	return problem(ReasonNotAllowed, "the pod template of step %s asks for more than such pods may have: %s. Take it out%s.", quoted(c.unit.Name), what, setting)
}

// account refuses a service account that the author may not use, and tokens and certificates for
// other audiences. Where the API server asks about authors, they need the right to create pods in
// the namespace of the unit, which includes its service accounts.
func (c checking) account() *Problem {
	pod := c.exec.PodTemplate.Spec
	if slices.Contains(c.Allow, ServiceAccount) {
		return nil
	}
	if what := usesAccount(pod); what != "" && Namespace(c.unit, c.Settings) == c.OperatorNamespace {
		return c.notAllowed(ServiceAccount, fmt.Sprintf("%s in the operator's namespace %s (run the unit in another one: podTemplate.metadata.namespace)", what, quoted(c.OperatorNamespace)))
	} else if what != "" && !c.AuthorAsked {
		return c.notAllowed(ServiceAccount, what+", while the operator does not ask whether its author may use it (sandboxes.authors.ask)")
	}
	for _, v := range pod.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.ServiceAccountToken != nil:
				return c.notAllowed(ServiceAccount, "a serviceAccountToken in the volume "+quoted(v.Name))
			case s.PodCertificate != nil:
				return c.notAllowed(ServiceAccount, "a podCertificate in the volume "+quoted(v.Name))
			}
		}
	}
	return nil
}

// usesAccount returns the field by which a pod gets the token of a service account; empty when it
// gets none.
func usesAccount(pod corev1.PodSpec) string {
	if account(pod) != "" {
		return "serviceAccountName " + quoted(account(pod))
	}
	if pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken {
		return "automountServiceAccountToken"
	}
	return ""
}

// reads refuses references to objects when the API server does not ask whether the author may
// read them.
func (c checking) reads() *Problem {
	if c.AuthorAsked || slices.Contains(c.Allow, Secrets) {
		return nil
	}
	if all := Reads(c.unit); len(all) > 0 {
		return c.notAllowed(Secrets, fmt.Sprintf("%s %s, while the operator does not ask whether its author may read it", all[0].Kind, quoted(all[0].Name)))
	}
	return nil
}
