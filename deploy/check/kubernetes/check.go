// Package kubernetes renders manifests as `kubectl apply -k` would, and compares each object with what its
// kind allows: Kubernetes' own with k8s.io/api's types, where an unknown field is an error, KEDA's with the schema of its
// CustomResourceDefinition, and a trigger's metadata with the names that KEDA's scaler reads.
package kubernetes

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Check returns the rendered objects of a folder.
func Check(folder string) ([]map[string]any, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var objects []map[string]any
	for _, resource := range rendered.Resources() {
		id := resource.CurId()
		object, err := resource.Map()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		if version := id.ApiVersion(); version == kedaVersion {
			err = checkKEDA(id.Kind, object)
		} else {
			var text []byte
			if text, err = resource.MarshalJSON(); err == nil {
				err = checkKubernetes(version+" "+id.Kind, text)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
