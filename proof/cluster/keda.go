package main

import (
	"context"
	"fmt"
	"net/http"
)

// The autoscaler of the manifests, as KEDA names it.
const hpaPath = "/apis/autoscaling/v2/namespaces/" + namespace + "/horizontalpodautoscalers/keda-hpa-keyfold-worker"

// controllers starts those of Kubernetes that workers need, the autoscaler among them, and KEDA.
func (p *plane) controllers(ctx context.Context) error {
	if err := p.run("kube-controller-manager", "--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", p.ports.Port(managerPort)),
		"--leader-elect=false", "--use-service-account-credentials=false", "--horizontal-pod-autoscaler-sync-period=1s",
		"--controllers=deployment-controller,replicaset-controller,horizontal-pod-autoscaler-controller,serviceaccount-controller"); err != nil {
		return err
	}
	if err := p.publishAdapter(ctx); err != nil {
		return err
	}
	operator := p.ports.Address(operatorPort)
	if err := p.run("operator", "--cert-dir="+p.dir, "--metrics-service-bind-address="+operator,
		"--metrics-bind-address="+p.ports.Address(operatorMetricsPort), "--health-probe-bind-address="+p.ports.Address(operatorHealthPort)); err != nil {
		return err
	}
	if err := p.run("adapter", "--cert-dir="+p.dir, "--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key", "--bind-address=127.0.0.1",
		fmt.Sprint("--secure-port=", p.ports.Port(adapterPort)), fmt.Sprint("--port=", p.ports.Port(adapterMetricsPort)),
		"--metrics-service-address="+operator, "--lister-kubeconfig=kubeconfig", "--authentication-kubeconfig=kubeconfig", "--authorization-kubeconfig=kubeconfig"); err != nil {
		return err
	}
	return p.await(ctx, "KEDA's adapter answers", func() error {
		return p.call(ctx, http.MethodGet, "/apis/external.metrics.k8s.io/v1beta1", nil, nil)
	})
}

// publishAdapter has the API server ask KEDA's adapter for external metrics, by a name of the loopback.
func (p *plane) publishAdapter(ctx context.Context) error {
	service := map[string]any{
		"metadata": map[string]any{"name": "adapter"},
		"spec":     map[string]any{"type": "ExternalName", "externalName": "localhost"},
	}
	extension := map[string]any{
		"metadata": map[string]any{"name": "v1beta1.external.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
			"service":               map[string]any{"name": "adapter", "namespace": kedaNamespace, "port": p.ports.Port(adapterPort)},
			"insecureSkipTLSVerify": true, // the certificate is for the loopback, not for the service
		},
	}
	for _, made := range []struct {
		path   string
		object any
	}{
		{"/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": kedaNamespace}}},
		{"/api/v1/namespaces/" + kedaNamespace + "/services", service},
		{"/apis/apiregistration.k8s.io/v1/apiservices", extension},
	} {
		if err := p.call(ctx, http.MethodPost, made.path, made.object, nil); err != nil {
			return err
		}
	}
	return nil
}
