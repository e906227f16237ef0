// Check renders manifests as `kubectl apply -k` would and compares each object with what its kind allows: Kubernetes'
// own with k8s.io/api's types, where an unknown or repeated field is an error, KEDA's with the schema of its
// CustomResourceDefinition, and a trigger's metadata with the names that KEDA's scaler reads. It prints the
// objects as a JSON array. It is a module of its own, so that keyfold does not depend on these.
//
//	go run . FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check FOLDER")
		os.Exit(2)
	}
	objects, err := check(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(objects)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

// check returns the rendered objects of a folder.
func check(folder string) ([]map[string]any, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var objects []map[string]any
	for _, resource := range rendered.Resources() {
		id := resource.CurId()
		text, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		object, err := resource.Map()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		if group := id.ApiVersion(); group == kedaVersion {
			err = checkKEDA(id.Kind, object)
		} else {
			err = checkKubernetes(group+" "+id.Kind, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
