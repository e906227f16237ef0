package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"keyfold/internal/testserver/process"
)

// Ports of the servers.
const (
	etcdPort = iota
	etcdPeerPort
	apiPort
	managerPort
	operatorPort
	operatorMetricsPort
	operatorHealthPort
	adapterPort
	adapterMetricsPort
)

// plane is a control plane: etcd, the API server, and what is started beside them.
type plane struct {
	dir, tools string
	ports      *process.Ports
	running    map[string]*process.Process
	client     *http.Client
}

func newPlane(tools string) (*plane, error) {
	tools, err := filepath.Abs(tools)
	if err != nil {
		return nil, err
	}
	p := &plane{tools: tools, running: map[string]*process.Process{}}
	if p.dir, err = os.MkdirTemp("", "keyfold-cluster-"); err != nil {
		return nil, err
	}
	if p.ports, err = process.ClaimPorts(); err != nil {
		return nil, err
	}
	if err := certify(p.dir); err != nil {
		return nil, err
	}
	if p.client, err = newClient(p.dir); err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.file("kubeconfig"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: administrator}}]
clusters: [{name: cluster, cluster: {server: "%s", certificate-authority: ca.crt}}]
users: [{name: administrator, user: {client-certificate: tls.crt, client-key: tls.key}}]
`, p.url()), 0o600)
}

func (p *plane) file(name string) string { return filepath.Join(p.dir, name) }

func (p *plane) url() string { return "https://" + p.ports.Address(apiPort) }

// start returns when the API server is ready.
func (p *plane) start(ctx context.Context) error {
	etcd, peer := "http://"+p.ports.Address(etcdPort), "http://"+p.ports.Address(etcdPeerPort)
	if err := p.run("etcd", "--data-dir=etcd", "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return err
	}
	if err := p.run("kube-apiserver", "--etcd-servers="+etcd,
		// No process connects to the address that is advertised. It may not be a loopback one.
		"--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", fmt.Sprint("--secure-port=", p.ports.Port(apiPort)),
		"--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key", "--client-ca-file=ca.crt", "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=tls.key", "--service-account-signing-key-file=tls.key",
		"--requestheader-client-ca-file=ca.crt", "--requestheader-allowed-names="+proxy, "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=tls.crt", "--proxy-client-key-file=tls.key"); err != nil {
		return err
	}
	return p.await(ctx, "the API server is ready", func() error { return p.call(ctx, http.MethodGet, "/readyz", nil, nil) })
}

// run starts one of the tools. Its output is NAME.out in the plane's folder.
func (p *plane) run(name string, args ...string) (err error) {
	environment := append(os.Environ(), "KUBECONFIG="+p.file("kubeconfig"), "WATCH_NAMESPACE=", "KEDA_CLUSTER_OBJECT_NAMESPACE="+kedaNamespace)
	p.running[name], err = process.Start(p.dir, name, environment, filepath.Join(p.tools, name), args...)
	return err
}

func (p *plane) stop() {
	for _, server := range p.running {
		server.Kill()
	}
	p.ports.Release()
}

// await waits until holds returns no error. It gives up where a server ends.
func (p *plane) await(ctx context.Context, what string, holds func() error) error {
	for {
		err := holds()
		if err == nil {
			return nil
		}
		for name, server := range p.running {
			if !server.Running() {
				return fmt.Errorf("%s ended before this: %s\n%s", name, what, p.output(name))
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited in vain until %s", what), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// output is the end of what a server wrote.
func (p *plane) output(name string) string {
	text, _ := os.ReadFile(p.file(name + ".out"))
	return string(text[max(0, len(text)-2000):])
}
