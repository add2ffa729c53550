import java.util.Arrays;

/** Burns CPU in a chain of methods for some seconds: the sixth is called by the class library. */
class Chain {
    static int f10(int n) {
        for (int i = 0; i < 40_000; i++) n = (n * 31 + i) % 65521;
        return n;
    }

    static int f09(int n) { return f10(n) + 1; }
    static int f08(int n) { return f09(n) + 1; }
    static int f07(int n) { return f08(n) + 1; }
    static int f06(Integer a, Integer b) { return f07(a) + 1; }
    static int f05(int n) {
        Integer[] two = {n, n + 1};
        Arrays.sort(two, Chain::f06);
        return two[0];
    }
    static int f04(int n) { return f05(n) + 1; }
    static int f03(int n) { return f04(n) + 1; }
    static int f02(int n) { return f03(n) + 1; }
    static int f01(int n) { return f02(n) + 1; }

    public static void main(String[] arguments) {
        long end = System.nanoTime() + (long) (1e9 * Double.parseDouble(arguments[0]));
        while (System.nanoTime() < end) f01(1);
    }
}
