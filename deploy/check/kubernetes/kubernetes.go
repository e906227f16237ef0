package kubernetes

import (
	"errors"
	"fmt"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
)

var kinds = map[string]func() any{
	"apps/v1 Deployment":            func() any { return new(apps.Deployment) },
	"batch/v1 CronJob":              func() any { return new(batch.CronJob) },
	"batch/v1 Job":                  func() any { return new(batch.Job) },
	"policy/v1 PodDisruptionBudget": func() any { return new(policy.PodDisruptionBudget) },
	"v1 ConfigMap":                  func() any { return new(core.ConfigMap) },
	"v1 Service":                    func() any { return new(core.Service) },
}

// checkKubernetes decodes an object into the type of its kind, with the decoder of
// Kubernetes: it tells capitals from small letters.
func checkKubernetes(kind string, text []byte) error {
	empty, known := kinds[kind]
	if !known {
		return fmt.Errorf("%s has no type here: add it to kinds", kind)
	}
	strict, err := json.UnmarshalStrict(text, empty())
	return errors.Join(append(strict, err)...)
}
