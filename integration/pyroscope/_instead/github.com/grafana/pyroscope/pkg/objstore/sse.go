package objstore

// TenantConfigProvider returns how the objects of a tenant are encrypted in S3.
type TenantConfigProvider interface {
	S3SSEType(tenant string) string
	S3SSEKMSKeyID(tenant string) string
	S3SSEKMSEncryptionContext(tenant string) string
}

// NewSSEBucketClient returns the bucket as it is: there is no S3 in this build whose objects could be encrypted.
func NewSSEBucketClient(_ string, bucket Bucket, _ TenantConfigProvider) InstrumentedBucket {
	return instrumented{bucket}
}

// instrumented is a bucket without metrics.
type instrumented struct{ Bucket }

func (b instrumented) WithExpectedErrs(expected IsOpFailureExpectedFunc) Bucket {
	if inner, ok := b.Bucket.(InstrumentedBucket); ok {
		return instrumented{inner.WithExpectedErrs(expected)}
	}
	return b
}

func (b instrumented) ReaderWithExpectedErrs(expected IsOpFailureExpectedFunc) BucketReader {
	return b.WithExpectedErrs(expected)
}
