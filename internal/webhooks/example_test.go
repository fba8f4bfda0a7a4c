package webhooks_test

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/webhooks"
)

func ExampleKeeper_Cover() {
	ctx := context.Background()
	c := apiServerWith(installed()...).Build()
	keeper, err := webhooks.New(c, webhooks.Options{
		Namespace:  "evenkeel-system",
		Webhooks:   []webhooks.Webhook{{Name: "pods.evenkeel.dev", Mutating: true, Rules: rules("pods")}},
		Namespaces: func(context.Context) ([]string, error) { return nil, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(keeper.Cover(ctx, "shop"))
	var configuration admissionv1.MutatingWebhookConfiguration
	err = c.Get(ctx, client.ObjectKey{Name: webhooks.DefaultName}, &configuration)
	fmt.Println(names(configuration.Webhooks[0].NamespaceSelector), err)
	fmt.Println(keeper.Certificate().Leaf.DNSNames)
	// Output:
	// <nil>
	// [shop] <nil>
	// [evenkeel-webhooks.evenkeel-system.svc]
}
