// Command kubeapiserver runs a command together with a real Kubernetes API server. The command finds the server's
// kubeconfig in the environment variable HEADWATER_KUBECONFIG:
//
//	kubeapiserver COMMAND [ARGUMENT...]
//
// The server, and the etcd that stores its data, listen on loopback and leave no files. There is no kubelet, scheduler
// or controller: the command itself writes the pods' state.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubeapiserver COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1:])
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(failed.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "kubeapiserver:", err)
		os.Exit(1)
	}
}

func run(command []string) error {
	dir, err := os.MkdirTemp("", "headwater-kubernetes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// The server's log goes to a file, which is printed if the server does not start.
	terminal := os.Stderr
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	os.Stderr = log
	defer func() { os.Stderr = terminal }()
	failed := func(what string, err error) error {
		text, _ := os.ReadFile(log.Name())
		fmt.Fprintf(terminal, "%s", text)
		return fmt.Errorf("%s: %w", what, err)
	}

	etcd, endpoint, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return failed("etcd", err)
	}
	defer etcd.Close()
	kubeconfig, ended, err := startServer(ctx, dir, endpoint)
	if err != nil {
		return failed("kube-apiserver", err)
	}
	if err := waitReady(ctx, kubeconfig, ended); err != nil {
		return failed("kube-apiserver", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, terminal
	cmd.Env = append(os.Environ(), "HEADWATER_KUBECONFIG="+kubeconfig)
	return cmd.Run()
}

// startEtcd starts an empty etcd and returns its address.
func startEtcd(dir string) (*embed.Etcd, string, error) {
	config := embed.NewConfig()
	config.Dir, config.LogLevel = dir, "panic"
	client, err := freeURL()
	if err != nil {
		return nil, "", err
	}
	peer, err := freeURL()
	if err != nil {
		return nil, "", err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, "", err
	}
	<-etcd.Server.ReadyNotify()
	return etcd, client.String(), nil
}

// freeURL returns a loopback address without a listener.
func freeURL() (url.URL, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer listener.Close()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}, nil
}

// startServer starts the API server and writes its kubeconfig. ended receives the server's error when it ends.
func startServer(ctx context.Context, dir, etcd string) (kubeconfig string, ended <-chan error, err error) {
	address, err := freeURL()
	if err != nil {
		return "", nil, err
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	token := hex.EncodeToString(secret)
	tokens, key := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "key.pem")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", nil, err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	err = errors.Join(os.WriteFile(key, private, 0o600),
		os.WriteFile(tokens, []byte(token+",tester,tester,system:masters\n"), 0o600))
	if err != nil {
		return "", nil, err
	}
	command := app.NewAPIServerCommand()
	command.SetArgs([]string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--secure-port=" + address.Port(),
		"--cert-dir=" + filepath.Join(dir, "certificates"),
		"--token-auth-file=" + tokens, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--disable-admission-plugins=ServiceAccount", // no controller creates accounts
		"--endpoint-reconciler-type=none",            // a reconciler refuses loopback
	})
	result := make(chan error, 1)
	go func() { result <- command.ExecuteContext(ctx) }()

	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: "https://" + address.Host, InsecureSkipTLSVerify: true}
	config.AuthInfos["test"] = &api.AuthInfo{Token: token}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	kubeconfig = filepath.Join(dir, "kubeconfig")
	return kubeconfig, result, clientcmd.WriteToFile(*config, kubeconfig)
}

// waitReady returns when the server is ready.
func waitReady(ctx context.Context, kubeconfig string, ended <-chan error) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	limit := time.After(10 * time.Minute)
	for {
		if response, err := client.Get(config.Host + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("it has ended before it was ready: %w", err)
		case <-limit:
			return errors.New("not ready after ten minutes")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
