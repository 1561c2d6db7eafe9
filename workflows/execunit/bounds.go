package execunit

import (
	"fmt"
	"slices"

	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkPowers says which power lets through what a check of Pod Security baseline forbids.
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

// baseline refuses what Pod Security baseline forbids, in its newest version.
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

// notAllowed refuses what a pod may only have with a power.
func (c checking) notAllowed(power Power, what string) *Problem {
	setting := ""
	if power != "" {
		setting = fmt.Sprintf(", or, for every unit, let the operator's chart have %s: [%s]", Setting, power)
	}
	return problem(ReasonNotAllowed, "the pod template of unit %s asks for more than such pods may have: %s. Take it out%s.", quoted(c.unit.Name), what, setting)
}

// account refuses a service account, and whatever else shows who the pod is.
func (c checking) account() *Problem {
	pod := c.exec.PodTemplate.Spec
	if slices.Contains(c.Allow, ServiceAccount) {
		return nil
	}
	if account(pod) != "" {
		return c.notAllowed(ServiceAccount, "serviceAccountName "+quoted(account(pod)))
	}
	if pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken {
		return c.notAllowed(ServiceAccount, "automountServiceAccountToken")
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

// reads refuses objects of the namespace where nobody asks whether the author may read them.
func (c checking) reads() *Problem {
	if c.AuthorAsked || slices.Contains(c.Allow, Secrets) {
		return nil
	}
	if all := Reads(c.unit); len(all) > 0 {
		return c.notAllowed(Secrets, fmt.Sprintf("%s %s, while the operator does not ask whether its author may read it", all[0].Kind, quoted(all[0].Name)))
	}
	return nil
}
