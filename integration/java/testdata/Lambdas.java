// Runs lambdas, a method reference, a method handle, reflection and a proxy: classes that the VM makes while it runs.
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.LongSupplier;

public class Lambdas {
    static volatile long sink;

    interface Work {
        long of(int n);
    }

    static long burn(int n) {
        long x = 0;
        for (int i = 0; i < n; i++) {
            x += i * 31L ^ (x >>> 3);
        }
        return x;
    }

    static LongSupplier supplier(int k) {
        return () -> burn(200000 + k);
    }

    public static void main(String[] arguments) throws Throwable {
        LongSupplier first = supplier(1);
        LongSupplier second = supplier(2);
        Work reference = Lambdas::burn;
        Work lambda = n -> burn(n) + 1;
        MethodHandle handle = MethodHandles.lookup().findStatic(
            Lambdas.class, "burn", MethodType.methodType(long.class, int.class));
        Method method = Lambdas.class.getDeclaredMethod("burn", int.class);
        Work proxy = (Work) Proxy.newProxyInstance(Lambdas.class.getClassLoader(), new Class<?>[] {Work.class},
            (self, called, with) -> burn((Integer) with[0]));
        for (int rounds = Integer.parseInt(arguments[0]); rounds > 0; rounds--) {
            sink += first.getAsLong() + second.getAsLong() + reference.of(200000) + lambda.of(200000);
            sink += (long) handle.invokeExact(200000) + (Long) method.invoke(null, 200000) + proxy.of(200000);
        }
    }
}
