package cloudprovider

import (
	"context"
	"errors"
)

// OptionsOrDefaults returns the group's options, or defaults if the provider has no options for it.
func OptionsOrDefaults(ctx context.Context, p Provider, id string, defaults GroupOptions) (GroupOptions, error) {
	options, err := p.Options(ctx, id, defaults)
	if errors.Is(err, ErrNotImplemented) {
		return defaults, nil
	}
	return options, err
}
