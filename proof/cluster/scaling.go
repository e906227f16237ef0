package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// The windows of scaling.yaml, 2 and 10 minutes, made short. The broker tells a quorum queue's depth every 5 s.
const (
	upWindow, downWindow = 8, 12 // seconds
	hold                 = 3 * downWindow * time.Second
)

const shorter = `patches:
- target: {kind: ScaledObject}
  patch: |-
    - {op: replace, path: /spec/pollingInterval, value: 1}
    - {op: replace, path: /spec/advanced/horizontalPodAutoscalerConfig/behavior/scaleUp/stabilizationWindowSeconds, value: %[1]d}
    - {op: replace, path: /spec/advanced/horizontalPodAutoscalerConfig/behavior/scaleUp/policies/0/periodSeconds, value: %[1]d}
    - {op: replace, path: /spec/advanced/horizontalPodAutoscalerConfig/behavior/scaleDown/stabilizationWindowSeconds, value: %[2]d}
    - {op: replace, path: /spec/advanced/horizontalPodAutoscalerConfig/behavior/scaleDown/policies/0/periodSeconds, value: %[2]d}
`

// scene is the cluster with the manifests, and the broker that they ask.
type scene struct {
	*plane
	kubelet *kubelet
	queues  *queues
}

// scaling plays what the policy is for. A part waits for each step, however long it takes.
func scaling(ctx context.Context, out io.Writer, p *plane, c cli) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := os.Mkdir(p.file("rabbitmq"), 0o700); err != nil {
		return err
	}
	q, err := newQueues(p.file("rabbitmq"))
	if err != nil {
		return err
	}
	defer q.close()
	s := &scene{plane: p, kubelet: &kubelet{p: p}, queues: q}
	s.kubelet.ready.Store(true)
	go s.kubelet.run(ctx)
	if err := s.set(ctx, c.Kustomize); err != nil {
		return err
	}
	for _, part := range []struct {
		says string
		play func(context.Context) error
	}{
		{"no message, 5000 dead letters: 3 workers", s.start},
		{"1500 ready: 3, 5, 7, 9, 10 workers", s.backlog},
		{"500 ready, as many taken as arrive: the 10 stay", s.middle},
		{"none ready: 9, 8, 7, 6, 5, 4, 3", s.idle},
		{"1500 ready, no pod is: 3, 5, 7, 9, 10", s.unready},
		{"the broker is away: the 10 stay", s.away},
	} {
		if err := part.play(ctx); err != nil {
			conditions, _ := p.conditions(context.WithoutCancel(ctx))
			return fmt.Errorf("%s: %w\nthe autoscaler says %v", part.says, err, conditions)
		}
		fmt.Fprintln(out, part.says)
	}
	return nil
}

// set starts the controllers and applies the manifests.
func (s *scene) set(ctx context.Context, kustomize string) error {
	if err := s.controllers(ctx); err != nil {
		return err
	}
	api := s.queues.broker.ManagementURL()
	for name, data := range map[string]map[string]any{
		"keyfold":            {}, // KEDA reads what the target's containers have as environment
		"keyfold-management": {"host": "http://guest:guest@" + api[len("http://"):] + "/%2F"},
	} {
		secret := map[string]any{"metadata": map[string]any{"name": name}, "stringData": data}
		if err := s.call(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets", secret, nil); err != nil {
			return err
		}
	}
	folder, err := s.overlay("scaling", kustomize, fmt.Sprintf(shorter, upWindow, downWindow))
	if err != nil {
		return err
	}
	_, err = s.apply(ctx, folder)
	return err
}

func (s *scene) start(ctx context.Context) error {
	if err := publish(ctx, s.queues.channel, other, 5000); err != nil {
		return err
	}
	if err := s.await(ctx, "the autoscaler has an answer", func() error { return s.says(ctx, "ScalingActive", "True") }); err != nil {
		return err
	}
	return s.settled(ctx, 3, 3)
}

func (s *scene) backlog(ctx context.Context) error {
	if err := s.queues.fill(ctx, 1500); err != nil {
		return err
	}
	if err := s.steps(ctx, 3, 5, 7, 9, 10); err != nil {
		return err
	}
	return s.settled(ctx, 10, 10)
}

func (s *scene) middle(ctx context.Context) error {
	flowing, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- s.queues.flow(flowing, 40) }()
	if err := s.await(ctx, "25 messages a second arrive", func() error { return s.queues.arriving(ctx, 25) }); err != nil {
		return err
	}
	if err := s.queues.fill(ctx, 500); err != nil {
		return err
	}
	if err := s.stays(ctx, 10); err != nil {
		return err
	}
	end()
	return <-ended
}

func (s *scene) idle(ctx context.Context) error {
	if err := s.queues.fill(ctx, 0); err != nil {
		return err
	}
	if err := s.steps(ctx, 10, 9, 8, 7, 6, 5, 4, 3); err != nil {
		return err
	}
	return s.settled(ctx, 3, 3)
}

func (s *scene) unready(ctx context.Context) error {
	s.kubelet.ready.Store(false)
	if err := s.settled(ctx, 3, 0); err != nil {
		return err
	}
	if err := s.queues.fill(ctx, 1500); err != nil {
		return err
	}
	if err := s.steps(ctx, 3, 5, 7, 9, 10); err != nil {
		return err
	}
	return s.settled(ctx, 10, 0)
}

func (s *scene) away(ctx context.Context) error {
	s.queues.broker.Kill()
	if err := s.await(ctx, "the autoscaler has no answer", func() error { return s.says(ctx, "ScalingActive", "False") }); err != nil {
		return err
	}
	return s.stays(ctx, 10)
}

// stays looks at the number of workers for longer than any window.
func (s *scene) stays(ctx context.Context, workers int) error {
	for end := time.Now().Add(hold); time.Now().Before(end); {
		d, err := s.workers(ctx)
		if err != nil {
			return err
		}
		if d.Spec.Replicas != workers {
			return fmt.Errorf("they became %d", d.Spec.Replicas)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}
