package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

const workersPath = "/apis/apps/v1/namespaces/" + namespace + "/deployments/keyfold-worker"

// kubelet stands in the place of one: it reports each pod as running, and as ready or not. An API server deletes a pod
// without a node at once.
type kubelet struct {
	p     *plane
	ready atomic.Bool
}

func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		// A call that fails is made again: the checks wait for the pods' state.
		_ = k.report(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (k *kubelet) report(ctx context.Context) error {
	const path = "/api/v1/namespaces/" + namespace + "/pods"
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := k.p.call(ctx, http.MethodGet, path, nil, &pods); err != nil {
		return err
	}
	want := "False"
	if k.ready.Load() {
		want = "True"
	}
	var faults error
	for _, pod := range pods.Items {
		is := ""
		for _, condition := range pod.Status.Conditions {
			if condition.Type == "Ready" {
				is = condition.Status
			}
		}
		if is == want {
			continue
		}
		status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": want}}}
		faults = errors.Join(faults, k.p.call(ctx, http.MethodPatch, path+"/"+pod.Metadata.Name+"/status", map[string]any{"status": status}, nil))
	}
	return faults
}

// deployment is what of the workers' Deployment the checks read.
type deployment struct {
	Spec   struct{ Replicas int }
	Status struct{ Replicas, ReadyReplicas int }
}

func (p *plane) workers(ctx context.Context) (d deployment, err error) {
	return d, p.call(ctx, http.MethodGet, workersPath, nil, &d)
}

// settled waits until there are so many workers, and so many of them ready.
func (p *plane) settled(ctx context.Context, workers, ready int) error {
	return p.await(ctx, fmt.Sprintf("%d workers are there, %d of them ready", workers, ready), func() error {
		d, err := p.workers(ctx)
		if err == nil && (d.Spec.Replicas != workers || d.Status.Replicas != workers || d.Status.ReadyReplicas != ready) {
			err = fmt.Errorf("they are %+v", d)
		}
		return err
	})
}

// steps waits until the autoscaler has wanted these numbers of workers, one after the other and no others. A step
// lasts for seconds, so that each is seen.
func (p *plane) steps(ctx context.Context, from int, to ...int) error {
	for _, next := range to {
		is := from
		if err := p.await(ctx, fmt.Sprintf("%d workers become %d", from, next), func() error {
			d, err := p.workers(ctx)
			if is = d.Spec.Replicas; err == nil && is == from {
				err = fmt.Errorf("they are still %d", from)
			}
			return err
		}); err != nil {
			return err
		}
		if is != next {
			return fmt.Errorf("%d workers became %d, and not %d", from, is, next)
		}
		from = next
	}
	return nil
}

// condition is one of those that the HPA tells of itself.
type condition struct{ Type, Status, Reason, Message string }

func (p *plane) conditions(ctx context.Context) ([]condition, error) {
	var hpa struct {
		Status struct{ Conditions []condition }
	}
	err := p.call(ctx, http.MethodGet, hpaPath, nil, &hpa)
	return hpa.Status.Conditions, err
}

// says returns an error unless a condition of the HPA has the status.
func (p *plane) says(ctx context.Context, kind, status string) error {
	all, err := p.conditions(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(c condition) bool { return c.Type == kind && c.Status == status }) {
		return fmt.Errorf("the autoscaler says %v", all)
	}
	return nil
}
